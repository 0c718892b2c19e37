"""Words and widths: how text is measured, shortened and made safe to print."""
