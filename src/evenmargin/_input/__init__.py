"""Where rows enter: checks, kinds of arrays, dask collections, and scikit-learn's private helpers."""
