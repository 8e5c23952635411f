"""LLMPrism: what is wrong with the LLM training jobs on a GPU cluster, seen from the network."""

__version__ = "0.1.0"

__all__ = ["__version__"]
