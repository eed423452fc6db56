package loader

// maxHandOvers bounds the pairs of agents of which one may hand over to the
// other. Each agent's model is told of all that it may hand over to, so that a
// thousand agents below one would take a million descriptions.
const maxHandOvers = 100_000

// countHandOvers counts those among an agent that asks a model and all right
// below it, and tells when there are too many.
func (j *job) countHandOvers(p *placed) {
	if p.plan.Kind.Name != "LlmAgent" {
		return
	}
	before := j.handOvers
	j.handOvers += len(p.subs) * (len(p.subs) + 1)
	if before <= maxHandOvers && j.handOvers > maxHandOvers {
		j.report(p.plan.Node.Errorf("limit", "the app's agents may hand over to each other in more than %d ways", maxHandOvers).
			WithHint("put agents below others, or offer them as tools"))
	}
}
