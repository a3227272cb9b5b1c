"""Accounting: from recorded events to what may be said about them. Reads no data."""

from sfumato.privacy.accounting.compose import (
    Guarantee,
    Method,
    event_epsilon,
    event_rho,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from sfumato.privacy.accounting.gaussian import (
    discrete_delta,
    discrete_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    variation,
)

__all__ = [
    "Guarantee",
    "Method",
    "discrete_delta",
    "discrete_epsilon",
    "event_epsilon",
    "event_rho",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_mu",
    "guarantee",
    "total_epsilon",
    "total_per_metre",
    "total_rho",
    "variation",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
