"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const points = JSON.parse(at("points").textContent);
  const { tp, fn, fp, tn, threshold, prices, shown } = points;
  const slider = at("slider");

  // --- costs, as `amount` in _words.py writes them: they depend on the prices that a reader types ---

  const fixed = (number, decimals) => {
    const [whole, rest] = Math.abs(number).toFixed(decimals).split(".");
    const apart = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? "." + rest : "");
    return (number < 0 && /[1-9]/.test(apart) ? "−" : "") + apart;
  };
  const amount = (number) => {
    if (!Number.isFinite(number)) return "unknown";
    if (Math.abs(number) >= 1e15) return number.toExponential(2).replace(/-/g, "−");
    return Math.abs(number) >= 100 ? fixed(number, 0) : fixed(number, 1).replace(/\.0$/, "");
  };

  // --- what a threshold does ---

  const price = (id) => (at(id).value.trim() === "" || !at(id).checkValidity() ? NaN : Number(at(id).value));
  const cost = (i, missed, alarm) => {
    const paid = fn[i] * missed + fp[i] * alarm + tp[i] * prices.tp + tn[i] * prices.tn;
    return (1000 * paid) / (tp[i] + fn[i] + fp[i] + tn[i]);
  };
  const recall = (i) => tp[i] / (tp[i] + fn[i]);
  const put = (id, words) => { at(id).textContent = words; };

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
    const i = Number(slider.value), now = (id) => shown[id][i], where = now("where");
    for (const id of Object.keys(shown)) put(id, now(id));
    const missed = price("price-fn"), alarm = price("price-fp");
    const word = at("currency").value.trim(), unit = word ? " " + word : "";
    const spent = amount(cost(i, missed, alarm)) + unit;
    put("cost", spent);
    put("cost-nobody", amount(cost(tp.length - 1, missed, alarm)) + unit);
    put("cost-everybody", amount(cost(0, missed, alarm)) + unit);
    move("roc", fp[i] / (fp[i] + tn[i]), recall(i));
    move("pr", recall(i), tp[i] / (tp[i] + fp[i]) || 0);
    move("scores", threshold[i]);
    slider.setAttribute("aria-valuetext", where);
    return `Above ${where}: ${now("n-tp")} found, ${now("n-fn")} missed, ${now("n-fp")} false alarms; ` +
      `1,000 cases cost ${spent}.`;
  };

  let waiting = 0;
  const update = () => {
    const words = show();
    clearTimeout(waiting); // read aloud once the slider rests; emptied first, so that the same words are read again
    put("live", "");
    waiting = setTimeout(() => put("live", words), 400);
  };
  const go = (i) => { slider.value = i; update(); };

  const cheapest = () => {
    const missed = price("price-fn"), alarm = price("price-fp"), costs = tp.map((_, i) => cost(i, missed, alarm));
    return costs.indexOf(Math.min(...costs));
  };

  for (const id of ["controls", "prices"]) at(id).hidden = false;
  at("static").hidden = true;
  at("go-before").hidden = points.before === null;
  slider.value = points.chosen;
  slider.addEventListener("input", update);
  for (const id of ["price-fn", "price-fp", "currency"]) at(id).addEventListener("input", update);
  at("go-chosen").addEventListener("click", () => go(points.chosen));
  at("go-before").addEventListener("click", () => go(points.before));
  at("go-cheapest").addEventListener("click", () => go(cheapest()));
  at("go-recall").addEventListener("click", () => go(tp.findLastIndex((_, i) => recall(i) >= 0.95)));
  show();

  // --- paper shows what is folded on the screen ---

  const folded = [...document.querySelectorAll("details")];
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folded.filter((part) => !part.open);
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
})();
