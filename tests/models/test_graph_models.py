"""Graph models against dense forms of their definitions, written layer by layer."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from shortlist.data import Interactions
from shortlist.losses import SL
from shortlist.models import LightGCN, LightGCNpp, SimGCL, XSimGCL
from shortlist.models.graph import noise
from shortlist.models.graph_models import GraphModel, info_nce
from shortlist.scores import Batch
from shortlist.training import OptimizerSettings, Training, TrainingSettings


@pytest.fixture(scope="module")
def train() -> Interactions:
    """Twelve users and ten items; the last of each met nobody."""
    met = np.random.default_rng(1).random((12, 10)) < 0.4
    met[11], met[:, 9] = False, False
    users, items = met.nonzero()
    return Interactions.from_pairs(users, items, user_ids=np.arange(12), item_ids=np.arange(10))


def started(model: GraphModel, train: Interactions) -> Tensor:
    """Starts the model; its free vectors in one matrix, users first."""
    model.initialize(train, torch.Generator().manual_seed(3))
    return torch.cat([model.user, model.item])


def adjacency(train: Interactions, left: float, right: float) -> Tensor:
    """D^−left · A · D^−right, dense."""
    n_users, n = train.n_users, train.n_users + train.n_items
    matrix = torch.zeros(n, n)
    for user in range(n_users):
        for item in train.row(user):
            matrix[user, n_users + item] = matrix[n_users + item, user] = 1
    degree = matrix.sum(1).clamp(min=1)
    return degree.pow(-left).diag() @ matrix @ degree.pow(-right).diag()


def propagate(model: GraphModel) -> Tensor:
    return torch.cat(model.propagate())


def batch_of(users: Tensor, items: Tensor) -> Batch:
    """A batch of users and of items; which item belongs to which user does not matter to a contrast."""
    return Batch(users, len(users), row_P=torch.zeros_like(items), item_P=items)


def test_lightgcn_is_the_mean_of_its_layers(train: Interactions) -> None:
    model = LightGCN(dim=6, layers=3)
    ego, hat = started(model, train), adjacency(train, 0.5, 0.5)
    layers = [ego, hat @ ego, hat @ hat @ ego, hat @ hat @ hat @ ego]
    torch.testing.assert_close(propagate(model), torch.stack(layers).mean(0))


def test_lightgcn_pp_normalises_before_each_layer(train: Interactions) -> None:
    model = LightGCNpp(dim=6, layers=2, alpha=0.6, beta=-0.1, gamma=0.3)
    ego, hat = started(model, train), adjacency(train, 0.6, -0.1)
    assert not torch.allclose(hat, hat.T)
    first = hat @ F.normalize(ego)
    second = hat @ F.normalize(first)
    expected = 0.3 * ego + 0.7 * (first + second) / 2
    torch.testing.assert_close(propagate(model), expected)
    pull = torch.randn(22, 6, generator=torch.Generator().manual_seed(0))
    parameters = [model.user, model.item]
    got, wanted = (torch.autograd.grad((pull * vectors).sum(), parameters) for vectors in (propagate(model), expected))
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", [SimGCL, XSimGCL])
def test_contrasted_models_leave_the_free_vectors_out(train: Interactions, kind: type[SimGCL] | type[XSimGCL]) -> None:
    model = kind(dim=6, layers=2)
    ego, hat = started(model, train), adjacency(train, 0.5, 0.5)
    torch.testing.assert_close(propagate(model), (hat @ ego + hat @ hat @ ego) / 2)


def test_info_nce_by_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, 3, generator=generator) for _ in range(2))

    def cosine(a: Tensor, b: Tensor) -> float:
        return sum(p * q for p, q in zip(a.tolist(), b.tolist(), strict=True)) / math.hypot(*a) / math.hypot(*b)

    expected = 0.0
    for n in range(5):
        total = sum(math.exp(cosine(x[n], y[m]) / 0.3) for m in range(5))
        expected += (math.log(total) - cosine(x[n], y[n]) / 0.3) / 5
    assert float(info_nce(x, y, 0.3)) == pytest.approx(expected, rel=1e-5)


def test_the_contrast_of_a_step_without_noise(train: Interactions) -> None:
    """Users and items count once, however often a step names them."""
    model = XSimGCL(dim=6, layers=3, noise=0.0, contrast=0.7, temperature=0.3, contrast_layer=2)
    ego, hat = started(model, train), adjacency(train, 0.5, 0.5)
    layers = [hat @ ego, hat @ hat @ ego, hat @ hat @ hat @ ego]
    mean, one = sum(layers) / 3, layers[1]
    users, items = torch.tensor([3, 0, 3, 5]), torch.tensor([2, 2, 7, 1])
    vectors, terms = model.training_embeddings(batch_of(users, items), torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.cat([vectors.user_UD, vectors.item_ID]), mean)
    user_N, item_N = torch.tensor([0, 3, 5]), torch.tensor([1, 2, 7]) + 12
    expected = 0.7 * sum(
        F.cross_entropy(F.normalize(mean[n]) @ F.normalize(one[n]).T / 0.3, torch.arange(3)) for n in (user_N, item_N)
    )
    assert list(terms) == ["contrast"]
    torch.testing.assert_close(terms["contrast"], expected)
    parameters = [model.user, model.item]
    got = torch.autograd.grad(terms["contrast"], parameters)
    wanted = torch.autograd.grad(expected, parameters)
    torch.testing.assert_close(got, wanted)


def test_simgcl_contrasts_two_views_and_scores_without_noise(train: Interactions) -> None:
    model = SimGCL(dim=6, layers=2, noise=0.2, contrast=0.5, temperature=0.2)
    ego, hat = started(model, train), adjacency(train, 0.5, 0.5)
    everything = batch_of(torch.arange(12), torch.arange(10))
    vectors, terms = model.training_embeddings(everything, torch.Generator().manual_seed(7))
    assert torch.equal(vectors.user_UD, model.embeddings().user_UD)
    perturb, views = noise(0.2, torch.Generator().manual_seed(7)), []
    for _ in range(2):
        layers = [ego]
        for _ in range(2):
            clean = hat @ layers[-1]
            noisy = clean.detach().clone()
            perturb(noisy[:12])
            perturb(noisy[12:])
            layers.append(clean + (noisy - clean.detach()))
        views.append(F.normalize(torch.stack(layers[1:]).mean(0)))
    expected = sum(
        F.cross_entropy(views[0][half] @ views[1][half].T / 0.2, torch.arange(n)) / 2
        for half, n in ((slice(0, 12), 12), (slice(12, 22), 10))
    )
    torch.testing.assert_close(terms["contrast"], expected)
    parameters = [model.user, model.item]
    got, wanted = (torch.autograd.grad(value, parameters) for value in (terms["contrast"], expected))
    torch.testing.assert_close(got, wanted)


def test_only_so_many_nodes_are_contrasted(train: Interactions) -> None:
    """Of identical views, n nodes at a high temperature cost ln n each."""
    model = XSimGCL(dim=6, layers=1, noise=0.0, contrast=1.0, temperature=1e6, contrasted=4)
    started(model, train)
    everything = batch_of(torch.arange(12), torch.arange(10))
    _, terms = model.training_embeddings(everything, torch.Generator().manual_seed(0))
    assert terms["contrast"].item() == pytest.approx(2 * math.log(4), rel=1e-4)


def test_noise_is_added_in_training_only(train: Interactions) -> None:
    model = XSimGCL(dim=6)
    started(model, train)
    batch = batch_of(torch.arange(12), torch.arange(10))
    noisy, again, other = (model.encode(batch, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(noisy.row_RD, again.row_RD)
    assert not torch.equal(noisy.row_RD, other.row_RD)
    without = model.encode(batch)
    torch.testing.assert_close(without.row_RD, model.propagate()[0])
    assert not without.terms
    model.eval()
    assert torch.equal(model.score(np.arange(12)), model.score(np.arange(12)))
    torch.testing.assert_close(
        model.score(np.arange(12)), F.normalize(model.propagate()[0]) @ F.normalize(model.propagate()[1]).T
    )


@pytest.mark.parametrize("kind", [LightGCN, LightGCNpp, SimGCL, XSimGCL])
def test_a_resumed_training_ends_with_the_same_bits(
    train: Interactions, kind: type[GraphModel], tmp_path: Path
) -> None:
    def training(epochs: int) -> Training:
        settings = TrainingSettings(epochs=6, batch=4, checkpoint_every=0.0)
        made = Training(
            kind(dim=6), SL(), train, training=settings, optimizer=OptimizerSettings(schedule="constant"), seed=1
        )
        made.settings = TrainingSettings(**{**settings.settings(), "epochs": epochs})
        return made

    straight, cut, resumed = training(6), training(3), training(6)
    straight.run(tmp_path / "straight")
    cut.run(tmp_path / "cut")
    resumed.resume(tmp_path / "cut", {})
    resumed.run(tmp_path / "resumed")
    expected, got = load_file(tmp_path / "straight"), load_file(tmp_path / "resumed")
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    everybody = np.arange(12)
    assert torch.equal(straight.model.score(everybody), resumed.model.score(everybody))


def test_terms_of_the_model_are_part_of_the_loss(train: Interactions) -> None:
    """With a weight so large that nothing else counts, training makes the contrast small."""
    settings, optimizer = TrainingSettings(epochs=30, batch=12), OptimizerSettings(lr=0.05, schedule="constant")
    batch = batch_of(torch.arange(11), torch.arange(9))
    found = []
    for weight in (0.0, 100.0):
        model = XSimGCL(dim=6, contrast=weight)
        Training(model, SL(), train, training=settings, optimizer=optimizer).run()
        judge = XSimGCL(dim=6, contrast=1.0, noise=0.0)
        judge.load_state(model.state())
        found.append(judge.encode(batch, torch.Generator()).terms["contrast"].item())
    assert found[1] < 0.7 * found[0]
