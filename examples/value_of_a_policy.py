"""Ask what a new policy would have earned, from a log of what another one showed.

The log is made here, so the truth is known: a uniform policy showed one of 20 items at one of
three positions; the new one shows the items by their clicks in last week's log. Mind the direct
method's interval: it takes the reward model for the truth, and is far too narrow.

Usage: python examples/value_of_a_policy.py
"""

import numpy as np

import counterplay as cp
from counterplay.metrics.off_policy import item_policy, policy_values, reward_by_action

N_USERS, N_ITEMS, N_ROWS = 1_500, 20, 30_000


def main() -> None:
    """Make two weeks of impressions, take a policy from one and value it on the other."""
    rng = cp.Streams(0).numpy("impressions")
    click_rate = np.array([0.15, 0.1, 0.05])[:, None] * rng.beta(1, 2, N_ITEMS)  # [3, N_ITEMS]
    user = rng.integers(N_USERS, size=N_ROWS)
    item = rng.integers(N_ITEMS, size=N_ROWS)
    position = rng.integers(3, size=N_ROWS)
    click = rng.random(N_ROWS) < click_rate[position, item]
    last, now = np.split(np.arange(N_ROWS), 2)

    policy = np.bincount(item[last], click[last] + 0.01, minlength=N_ITEMS)  # in proportion to it
    model = reward_by_action(
        click[now], item[now], N_ITEMS, rng, position=position[now], clusters=user[now]
    )
    found = policy_values(
        click[now],
        np.full(len(now), 1 / N_ITEMS),
        item_policy(policy, item[now]),
        rng,
        predicted=model.of(item[now]),
        expected=model.under(policy),
        clusters=user[now],
    )
    print(f"the log's own policy: {click[now].mean():.4f} clicks a row")
    print(f"the new one, in truth: {click_rate.mean(0) @ policy / policy.sum():.4f}")
    for one in found:
        print(
            f"  {one.estimator:5} {one.value:.4f}, {one.level:.0%} from {one.low:.4f} to "
            f"{one.high:.4f}; {one.ess:,.0f} effective of {one.n:,} rows"
        )


if __name__ == "__main__":
    main()
