"""Agreement of two cheap models on the stored answers of ../shared/data: pairs by set, mean and worst.

    .venv/bin/python benchmarks/agreement.py [--data FILE]

The pairs were fixed before the first run. Nothing is fitted: the rule has no threshold.
"""

import argparse
from pathlib import Path
from statistics import fmean

from pointsman.jsonl import numbered_lines
from pointsman.learning.answers import AgreementRow, evaluate_agreement, read_answers, read_prices

DATA = Path("../shared/data/answers/zeroeval.jsonl.gz")
#: Tokens of instructions that went with each question, as the origin of the answers states.
INSTRUCTIONS = 250
PAIRS = (
    ("gpt-4o-mini-2024-07-18", "gemini-1.5-flash", "gpt-4o-2024-08-06"),
    ("gpt-4o-mini-2024-07-18", "gemini-1.5-flash", "claude-3-5-sonnet-20241022"),
    ("claude-3-haiku-20240307", "gpt-4o-mini-2024-07-18", "claude-3-5-sonnet-20241022"),
    ("gemini-1.5-flash", "gpt-4o-mini-2024-07-18", "gemini-1.5-pro"),
    ("Meta-Llama-3.1-8B-Instruct", "Qwen2.5-7B-Instruct", "Llama-3.1-405B-Inst@sambanova"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    file: Path = parser.parse_args().data
    by_set: dict[str, list[AgreementRow]] = {}
    for first, second, strong in PAIRS:
        models = (first, second, strong)
        rows = read_answers(numbered_lines(file), str(file), models)
        prices = read_prices(file.parent / "prices.json", file.name, models)
        print(f"{first} + {second} -> {strong}")
        for row in evaluate_agreement(rows, (first, second), strong, prices, instructions=INSTRUCTIONS):
            by_set.setdefault(row.set, []).append(row)
            gain, cost = row.success_minus_strong, row.cost
            print(
                f"  {row.set:8} n {row.n:4}  agreed {row.agreed.value:.4f}"
                f"  rule - strong {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
                f"  cost {cost.value:.4f} [{cost.low:.4f}, {cost.high:.4f}]"
            )
    print("mean of pairs by set, worst pair")
    for name, found in by_set.items():
        gains, costs = [row.success_minus_strong.value for row in found], [row.cost.value for row in found]
        print(
            f"  {name:8} pairs {len(found)}  rule - strong {fmean(gains):+.4f}, worst {min(gains):+.4f}"
            f"  cost {fmean(costs):.4f}, worst {max(costs):.4f}"
        )
    gains = [fmean(row.success_minus_strong.value for row in found) for found in by_set.values()]
    costs = [fmean(row.cost.value for row in found) for found in by_set.values()]
    print(f"mean of sets  rule - strong {fmean(gains):+.4f}  cost {fmean(costs):.4f}")


if __name__ == "__main__":
    main()
