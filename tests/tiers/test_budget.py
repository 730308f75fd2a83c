"""What asking for tiers may cost."""

from hypothesis import given
from hypothesis import strategies as st

from pointsman.tiers import Spending, Verification


def spent(budget: Verification, prices: list[float], every: float = 1.0) -> Spending:
    spending, now = Spending(opened_at=0.0), 0.0
    for price in prices:
        spending = budget.request(spending, now)
        if not budget.refuses(spending, price):
            spending = budget.ask(spending, price)
        now += every
    return spending


def test_the_first_request_may_ask_and_then_the_share_holds() -> None:
    spending = spent(Verification(model="small", share=0.1), [0.0] * 100)
    assert (spending.requests, spending.asked) == (100, 10)
    assert spent(Verification(model="small", share=0.1), [0.0]).asked == 1


def test_a_share_of_nothing_never_asks() -> None:
    assert spent(Verification(model="small", share=0.0), [0.0] * 10).asked == 0


def test_money_is_never_overspent_by_what_is_known_beforehand() -> None:
    spending = spent(Verification(model="small", share=1.0, money_per_day=1.0), [0.4] * 5)
    assert (spending.asked, spending.money) == (2, 0.8)


def test_a_refusal_says_what_is_used_up() -> None:
    budget = Verification(model="small", share=0.5, money_per_day=1.0)
    assert budget.refuses(Spending(0.0, 4, 2), 0.1) == "2 of 4 requests have asked, the share is 0.5"
    assert budget.refuses(Spending(0.0, 4, 1, 0.95), 0.1) == "0.9500 of 1 is spent"
    assert budget.refuses(Spending(0.0, 4, 1, 0.9), 0.1) == ""


def test_a_budget_in_money_refuses_what_has_no_price() -> None:
    budget = Verification(model="local", money_per_day=1.0)
    unknown = 'the price of "local" is unknown, and 1 a day is the most'
    assert budget.refuses(Spending(0.0, 4, 0), None) == unknown
    free_to_ask = Verification(model="local")
    assert free_to_ask.refuses(Spending(0.0, 4, 0), None) == ""
    assert free_to_ask.ask(Spending(0.0, 4, 0), None) == Spending(0.0, 4, 1, 0.0)


def test_a_new_day_starts_from_nothing() -> None:
    budget = Verification(model="small")
    used = Spending(opened_at=0.0, requests=9, asked=9, money=9.0)
    assert budget.request(used, 86_399.0) == Spending(0.0, 10, 9, 9.0)
    assert budget.request(used, 86_400.0) == Spending(86_400.0, 1, 0, 0.0)


@given(st.floats(0, 1), st.integers(1, 300))
def test_the_share_is_kept_at_every_moment(share: float, requests: int) -> None:
    spending = spent(Verification(model="small", share=share), [0.0] * requests)
    assert spending.asked <= share * spending.requests + 1
