from .link import Link as Link
from .registry import build as build
from .scorer import History as History
from .settings import ModelSettings as ModelSettings
