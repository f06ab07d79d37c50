"""From files to desired resources, with the place of every problem."""
