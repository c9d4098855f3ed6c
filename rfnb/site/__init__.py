"""The course as static pages and as slides: executed notebooks, guides, and the reference of all public names.

    python -m rfnb.site -o public             # the whole site; needs pip install 'rfnb[site]'
    python -m rfnb.site slides 07_search.ipynb -o slides.html

In Python: `rfnb.site.build.build`, `rfnb.site.slides.slides`. Nothing is listed by hand: the site contains everything
in `notebooks/` and `docs/`, and all names that `rfnb` exports.
"""
