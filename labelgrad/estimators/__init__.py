"""scikit-learn's door: LGA alone, and all witnesses in one pool."""

from labelgrad.estimators.network import LGAClassifier, LGARegressor
from labelgrad.estimators.pooled import PooledClassifier, PooledRegressor

__all__ = ["LGAClassifier", "LGARegressor", "PooledClassifier", "PooledRegressor"]
