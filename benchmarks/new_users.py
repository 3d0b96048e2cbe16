"""Lists of new users, made from their histories, against those of the same users trained in, on the built-in set.

    python benchmarks/new_users.py [--json] [--users N] [--epochs N] [--threads N]

The floor is what training itself leaves to chance: all users trained once more with another seed, the items held. Each
figure is the mean share of 20 places that agree with the list of the trained user. Wanted: at least the floor.
"""

from __future__ import annotations

import torch

from _common import parser, seconds, show
from shortlist.data import IntArray, Interactions, LoadOptions, load
from shortlist.losses import registry as losses
from shortlist.models import MF, Factored, registry
from shortlist.training import OptimizerSettings, Training, TrainingSettings, fold_in

PAIRS = (("mf", "sl"), ("mf", "slatk"), ("lightgcn", "sl"), ("mf", "bpr"), ("mf", "bce"), ("lightgcn", "bpr"))
K = 20


def training(model: Factored, loss: str, train: Interactions, epochs: int, seed: int) -> Training:
    """A training at its start."""
    return Training(
        model,
        losses[loss](),
        train,
        training=TrainingSettings(epochs=epochs),
        optimizer=OptimizerSettings(lr=0.03, schedule="linear"),
        seed=seed,
    )


def lists(score_RI: torch.Tensor, users: IntArray, train: Interactions) -> torch.Tensor:
    """The best items that the users have not met."""
    for row, user in enumerate(users):
        score_RI[row, train.row(user).tolist()] = -torch.inf
    return score_RI.topk(K).indices


def agreement(first_RK: torch.Tensor, second_RK: torch.Tensor) -> float:
    """The share of places that two lists have in common."""
    return float((first_RK.unsqueeze(2) == second_RK.unsqueeze(1)).any(2).float().mean())


def measure(name: str, loss: str, train: Interactions, users: IntArray, epochs: int) -> dict[str, float]:
    """How near new users come to the trained ones, and, for a model of free vectors, trained ones to themselves."""
    made = registry[name](similarity=losses[loss].similarity)
    assert isinstance(made, Factored)
    training(made, loss, train, epochs, seed=0).run()
    expected = lists(made.score(users), users, train)
    histories = [train.row(user) for user in users]
    found: list[torch.Tensor] = []
    spent = seconds(lambda: found.append(fold_in(made, losses[loss](), histories)))
    result = {"agreement": agreement(expected, lists(made.score(found[0]), users, train))}
    if isinstance(made, MF):
        again = MF(similarity=losses[loss].similarity)
        second = training(again, loss, train, epochs, seed=1)
        again.item.requires_grad_(False).copy_(made.item.detach())
        second.run()
        result["floor"] = agreement(expected, lists(again.score(users), users, train))
    return {**{key: round(value, 3) for key, value in result.items()}, "seconds_a_user": round(spent / len(users), 4)}


def main() -> None:
    arguments = parser("Lists of new users beside those of the same users trained in.")
    arguments.add_argument("--users", type=int, default=200, help="how many users are taken for new ones")
    arguments.add_argument("--epochs", type=int, default=20, help="epochs of training")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    train = load("debian", LoadOptions(seed=0)).train
    active = train.user_counts().nonzero()[0]
    users = active[:: len(active) // chosen.users][: chosen.users]
    show({f"{name} {loss}": measure(name, loss, train, users, chosen.epochs) for name, loss in PAIRS}, chosen.json)


if __name__ == "__main__":
    main()
