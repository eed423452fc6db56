package main

// liveProofs are the promises of live conversations.
func liveProofs() []proof {
	return []proof{
		{"live kills", liveKillRows},
		{"live growth", liveGrowthRows},
	}
}
