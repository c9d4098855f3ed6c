"""Runs first in each kernel of `rfnb lab`: if a cell needs the first cell, which has not run yet, an error says so."""


def _explain(result):  # type: ignore[no-untyped-def]
    if isinstance(result.error_in_exec, NameError) and not hasattr(get_ipython(), "_rfnb_order"):  # type: ignore  # noqa: F821
        from rfnb.teaching import order

        if explains := order.install(""):
            explains.see(result)


try:
    get_ipython().events.register("post_run_cell", _explain)  # type: ignore[name-defined]
except NameError:  # a Python terminal of that JupyterLab
    pass
del _explain
