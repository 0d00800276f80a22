func printScaling() {}
