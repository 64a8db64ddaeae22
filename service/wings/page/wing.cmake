packhouse_wing(page PROGRAM PageWing PATHS / /page.js /page.css /page.svg)
