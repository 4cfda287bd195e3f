"""`python -m labelgrad` is the command: `torchrun --nproc-per-node 2 -m labelgrad fit data.csv`."""

from labelgrad.auto.cli.app import main

if __name__ == "__main__":
    main()
