"""The plots of `adversarial_plots`: lost losses, and a departure that turns."""

import adversarial_plots


def test_lost_losses_and_a_departure_that_turns_prove_nothing_false():
    tally = adversarial_plots.run_campaign(24, 1, 150)  # false alarm 2e-6
    assert tally.violations == []
    assert tally.departed == tally.steps > 3_000  # the allowance pays for all
