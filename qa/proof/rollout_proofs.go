package main

// rolloutProofs are the promises about changes that reach some sessions first. The tests have their own
// controls.
func rolloutProofs() (all []proof) {
	for _, p := range []testProof{
		newSeededProof("rollouts", "a rollout's decider can be killed at each save, two replicas never decide twice, and a faulty change is taken back by itself",
			"wing/rollout", "TestKilledDecider TestTwoDeciders TestRolledBack"),
		newTestProof("replays", "1000 sessions of the example apps replay identically on unchanged files, and no live call begins at the ceiling of money",
			"wing/replay", "TestUnchanged TestLiveCeiling"),
	} {
		all = append(all, proof{p.name, p.runTests})
	}
	return append(all, proof{"rollouts under kill -9", rolloutKillRows})
}
