packhouse_wing(page PROGRAM PageInProgram PATHS / /page.js /page.css /page.svg)
