"""Write the tables used in docs/command.md: made-up payments, some of them frauds.

python examples/payments.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def payments(n: int = 8_000, seed: int = 7) -> pd.DataFrame:
    """A realistic table: an id, a date, missing values, a constant column, and a rare class."""
    rng = np.random.default_rng(seed)
    amount, hour = rng.lognormal(3.5, 1.1, n).round(2), rng.integers(0, 24, n)
    country = rng.choice(["DE", "FR", "US", "BR", None], n, p=[0.5, 0.25, 0.15, 0.06, 0.04])
    age = np.where(rng.random(n) < 0.1, np.nan, rng.gamma(2, 200, n).round())
    day = (pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 180, n)), "D")).strftime("%Y-%m-%d")
    odds = (
        -9.2 + 1.4 * np.log(amount) + 2.5 * (country == "BR") + 2.0 * (hour < 6) - 0.005 * np.nan_to_num(age, nan=300)
    )
    fraud = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return pd.DataFrame({
        "payment_id": [f"P{place:06d}" for place in range(n)], "day": day, "hour": hour, "amount": amount,
        "country": country, "currency": "EUR", "account_age": age, "fraud": fraud,
    })  # fmt: skip


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    table = payments()
    table[:6_000].to_csv(folder / "payments.csv", index=False)
    table[6_000:].to_csv(folder / "june.csv", index=False)
    table[6_000:].drop(columns="fraud").to_csv(folder / "new.csv", index=False)
