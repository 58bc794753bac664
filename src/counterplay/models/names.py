"""Models by name; nothing is loaded for it, so that the command line knows them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterplay.models.scorer import Scorer

MODELS: dict[str, str | type[Scorer]] = {  # places, so that torch is loaded only when used
    "pop": "counterplay.models.popularity:Popularity",
    "cf": "counterplay.models.factorization:CF",
    "gmf": "counterplay.models.factorization:GMF",
    "mlp": "counterplay.models.neural:MLP",
    "ncf": "counterplay.models.neural:NCF",
    "attn": "counterplay.models.attention:Attention",
    "ease": "counterplay.models.ease:Ease",
    "knn": "counterplay.models.neighbours:Neighbours",
    "ials": "counterplay.models.als:Als",
}
ABOUT = {  # what a report says of a candidate; a model that is not here goes by its name
    "pop": "what is popular, the same for everybody",
    "cf": "matrix factorization with biases",
    "gmf": "generalised matrix factorization",
    "mlp": "a neural network on vectors of user and item",
    "ncf": "a factorization and a neural network, added up",
    "attn": "self-attention over what a user did last",
    "ease": "a linear model that predicts each item from a user's others",
    "knn": "items that the same users choose, by their cosine",
    "ials": "matrix factorization by alternating least squares",
}
