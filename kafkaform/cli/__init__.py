"""The command line: it parses, wires, prints and exits; everything else is the library's."""
