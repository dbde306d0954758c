"""Other apps' exports: readers that turn a file into a `ParsedHistory`, and `saving`, which stores one."""
