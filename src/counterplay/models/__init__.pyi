from .link import Link as Link
from .registry import ModelSettings as ModelSettings
from .registry import build as build
from .scorer import History as History
