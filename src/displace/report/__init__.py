"""Drawing what evaluation computed: figures for print, and pages for a browser."""
