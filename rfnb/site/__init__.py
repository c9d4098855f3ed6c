"""The course as static pages and as slides: notebooks as they ran, guides, and the reference of all public names.

    python -m rfnb.site -o public             # the whole site; needs pip install 'rfnb[site]'
    python -m rfnb.site slides 07_search.ipynb -o slides.html

In Python: `rfnb.site.build.build`, `rfnb.site.slides.slides`. Nothing is listed by hand:
what lies in `notebooks/` and `docs/` is in the site, and so is what `rfnb` exports.
"""
