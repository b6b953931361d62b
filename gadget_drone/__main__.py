import sys

from gadget_drone.cli import main

sys.exit(main())
