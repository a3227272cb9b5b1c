"""RescueDP (Wang et al. 2016): adaptive sampling, budgets, grouping and filtering per region."""
