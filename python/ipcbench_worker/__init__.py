"""Workers of ipcbench in Python, and the arithmetic that reference rows share with them."""
