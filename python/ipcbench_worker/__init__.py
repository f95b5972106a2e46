"""Python workers of ipcbench, and the arithmetic that reference rows share with them."""
