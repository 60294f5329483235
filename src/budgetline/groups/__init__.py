"""Feature groups: which columns are computed together, and what each group costs."""

from budgetline.groups.feature_groups import FeatureGroups, Layout, as_feature_groups

__all__ = ["FeatureGroups", "Layout", "as_feature_groups"]
