"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const points = JSON.parse(at("points").textContent);
  const { tp, fn, fp, tn, threshold, probability, prices } = points;
  const slider = at("slider");

  // --- numbers as in _words.py ---

  const fixed = (number, decimals) => {
    const [whole, rest] = Math.abs(number).toFixed(decimals).split(".");
    const apart = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? "." + rest : "");
    return (number < 0 && /[1-9]/.test(apart) ? "−" : "") + apart;
  };
  const exponent = (number) => number.toExponential(2).replace(/-/g, "−");
  const amount = (number) => {
    if (!Number.isFinite(number)) return "unknown";
    if (Math.abs(number) >= 1e15) return exponent(number);
    return Math.abs(number) >= 100 ? fixed(number, 0) : fixed(number, 1).replace(/\.0$/, "");
  };
  const percent = (share) => {
    if (!Number.isFinite(share)) return "unknown";
    const hundredths = 100 * share, size = Math.abs(hundredths);
    const decimals = size > 0 && size < 0.1 ? Math.min(8, 1 - Math.floor(Math.log10(size))) : 1;
    return fixed(hundredths, decimals) + "\u00a0%";
  };
  const significant = (number) => {
    if (number === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(number)));
    if (size < -5 || size >= 12) return exponent(number);
    return fixed(number, Math.max(0, 2 - size));
  };

  // --- what a threshold does ---

  const price = (id) => (at(id).value.trim() === "" || !at(id).checkValidity() ? NaN : Number(at(id).value));
  const cost = (i, missed, alarm) => {
    const paid = fn[i] * missed + fp[i] * alarm + tp[i] * prices.tp + tn[i] * prices.tn;
    return (1000 * paid) / (tp[i] + fn[i] + fp[i] + tn[i]);
  };
  const ratio = (part, whole) => (whole > 0 ? part / whole : NaN);
  const put = (id, words) => { at(id).textContent = words; };
  const say = (id, words, delay) => { // emptied first, so that the same words are said again
    put(id, "");
    return setTimeout(() => put(id, words), delay);
  };

  const move = (chart, x, y) => {
    const svg = at(chart + "-chart"), mark = at(chart + "-chart-now"), scale = (key) => Number(svg.dataset[key]);
    const share = (x - scale("low")) / (scale("high") - scale("low"));
    const across = scale("left") + Math.min(1, Math.max(0, share)) * (scale("right") - scale("left"));
    if (y === undefined) {
      mark.setAttribute("x1", across);
      mark.setAttribute("x2", across);
    } else {
      mark.setAttribute("cx", across);
      mark.setAttribute("cy", scale("floor") + y * (scale("roof") - scale("floor")));
    }
  };

  const show = () => {
    const i = Number(slider.value), total = tp[i] + fn[i] + fp[i] + tn[i];
    const recall = ratio(tp[i], tp[i] + fn[i]), precision = ratio(tp[i], tp[i] + fp[i]);
    const specificity = ratio(tn[i], tn[i] + fp[i]);
    const where = probability ? percent(probability[i]) : significant(threshold[i]);
    const counts = { tp: tp[i], fn: fn[i], fp: fp[i], tn: tn[i] };
    for (const [name, count] of Object.entries(counts)) {
      put("n-" + name, amount(count));
      put("k-" + name, amount((1000 * count) / total));
    }
    put("where", where);
    put("r-recall", percent(recall));
    put("r-precision", percent(precision));
    put("r-specificity", percent(specificity));
    put("r-gmean", percent(Math.sqrt(recall * specificity)));
    put("k-flagged", amount((1000 * (tp[i] + fp[i])) / total));
    const missed = price("price-fn"), alarm = price("price-fp");
    const word = at("currency").value.trim(), unit = word ? " " + word : "";
    const spent = amount(cost(i, missed, alarm)) + unit;
    put("cost", spent);
    put("cost-nobody", amount(cost(tp.length - 1, missed, alarm)) + unit);
    put("cost-everybody", amount(cost(0, missed, alarm)) + unit);
    move("roc", 1 - specificity, recall);
    move("pr", recall, Number.isFinite(precision) ? precision : 0);
    move("scores", threshold[i]);
    slider.setAttribute("aria-valuetext", where);
    return `Above ${where}: ${amount(tp[i])} found, ${amount(fn[i])} missed, ${amount(fp[i])} false alarms; ` +
      `1,000 cases cost ${spent}.`;
  };

  let waiting = 0;
  const update = () => {
    const words = show();
    clearTimeout(waiting); // said once the slider rests
    waiting = say("live", words, 400);
  };
  const go = (i) => { slider.value = i; update(); };

  const cheapest = () => {
    const missed = price("price-fn"), alarm = price("price-fp");
    let best = 0;
    for (let i = 1; i < tp.length; i++) if (cost(i, missed, alarm) < cost(best, missed, alarm)) best = i;
    return best;
  };
  const enough = () => {
    let i = tp.length - 1;
    while (i > 0 && !(ratio(tp[i], tp[i] + fn[i]) >= 0.95)) i--;
    return i;
  };

  for (const id of ["controls", "prices", "theme", "copy"]) at(id).hidden = false;
  at("static").hidden = true;
  at("go-before").hidden = points.before === null;
  slider.value = points.chosen;
  slider.addEventListener("input", update);
  for (const id of ["price-fn", "price-fp", "currency"]) at(id).addEventListener("input", update);
  at("go-chosen").addEventListener("click", () => go(points.chosen));
  at("go-before").addEventListener("click", () => go(points.before));
  at("go-cheapest").addEventListener("click", () => go(cheapest()));
  at("go-recall").addEventListener("click", () => go(enough()));
  show();

  // --- the page ---

  const themes = ["automatic", "light", "dark"];
  at("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "automatic";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    put("theme", "Theme: " + next);
  });

  let saying = 0, renaming = 0;
  const tell = (words, label) => {
    clearTimeout(saying);
    clearTimeout(renaming);
    saying = say("copied", words, 100);
    put("copy", label);
    renaming = setTimeout(() => put("copy", "Copy"), 4000);
  };
  at("copy").addEventListener("click", async () => {
    const code = at("snippet");
    try {
      await navigator.clipboard.writeText(code.textContent);
      tell("Copied", "Copied");
    } catch { // marked, so that the reader can
      getSelection().selectAllChildren(code);
      tell("It could not be copied. It is selected: copy it with your keyboard.", "Selected: press Ctrl+C");
    }
  });

  const folded = [...document.querySelectorAll("details")];
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folded.filter((part) => !part.open);
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
})();
