"""Runs first in each kernel of `rfnb lab`: a cell that needs the first one, which was not run yet, says so as cells below it do."""


def _explain(result):  # type: ignore[no-untyped-def]
    if isinstance(result.error_in_exec, NameError) and not hasattr(get_ipython(), "_rfnb_order"):  # type: ignore  # noqa: F821
        from rfnb.teaching import order

        if explains := order.install(""):
            explains.see(result)


try:
    get_ipython().events.register("post_run_cell", _explain)  # type: ignore[name-defined]
except NameError:  # Python in a terminal of that JupyterLab
    pass
del _explain
