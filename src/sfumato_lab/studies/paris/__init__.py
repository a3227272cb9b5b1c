"""The study of Paris (Acs & Castelluccia 2014), figure by figure."""
