"""What Gadget Code costs, each number beside a floor that was measured in the same run."""
