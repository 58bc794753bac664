"""Make a world whose truth is known, train on its log, and put two models to an online test.

Popularity is the control. The test counts clicks of users who are shown a list of ten; since the
world is known, so is what each ranking is truly worth.

Usage: python examples/a_world_and_an_online_test.py
"""

import counterplay as cp


def main() -> None:
    """Draw a log, train on it, and compare what the test says with the truth."""
    world = cp.simulation.Synthetic(n_users=1000, n_items=200, n_shown=30, confounding=0.5).world()
    log, shown = world.log((1.0,)), world.log((1.0,), impressions=True)
    print(f"{world.name}: {len(log):,} clicks to train on, of {len(shown):,} impressions")
    arms = {}
    for name in ("pop", "gmf"):
        model = cp.models.build(name, log, dim=8, generator=cp.Streams(0).torch(name))
        if name == "gmf":
            cp.learning.erm(model, log, cp.learning.Training(epochs=20, batch_size=256, rate=0.01))
        arms[name] = cp.metrics.ModelScores(model, log, train=log)
    result = cp.simulation.online_test(
        world, arms, log, cp.simulation.OnlineTest(n_days=14, sessions_a_day=0.3)
    )
    for name, scores in arms.items():
        found, truth = (
            result.measures[name]["hit", 10],
            cp.simulation.true_values(world, scores, log),
        )
        interval = f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"
        print(f"{name}: hit@10 {interval}, in truth {truth['hit', 10]:.4f}")
    change = result.changes["gmf"]["hit", 10]
    print(f"gmf − pop: {change.value:+.4f} [{change.low:+.4f}, {change.high:+.4f}]")
    looks = result.daily["gmf"].p_value[[0, 1, 6, 13]].round(3).tolist()
    print(f"p of a look at ctr after days 1, 2, 7 and 14, always valid: {looks}")


if __name__ == "__main__":
    main()
