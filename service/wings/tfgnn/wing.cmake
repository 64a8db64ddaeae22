packhouse_wing(tfgnn PROGRAM TfgnnInProgram FORMATS examples)
