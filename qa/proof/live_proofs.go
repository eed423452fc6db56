package main

// liveProofs are the promises about live conversations.
func liveProofs() []proof {
	return []proof{
		{"live kills", liveKillRows},
		{"live growth", liveGrowthRows},
	}
}
