from .space import Tuning as Tuning
