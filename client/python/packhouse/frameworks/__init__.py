"""Batches as the objects of graph frameworks, and their data sets as tables of graphs.

`layout` says which tensor of a schema is what; the other modules make the objects of one framework
each, and import it only when they are used. See `packhouse.pyg`, `packhouse.jraph`,
`packhouse.tfgnn` and `packhouse.dgl`.
"""
