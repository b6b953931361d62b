import sys

from gadget_code.cli import main

sys.exit(main())
