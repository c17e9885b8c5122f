"""`toolbus chat`: a model that has the tools of the config's servers, in a terminal or for one answer."""
