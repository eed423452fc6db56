package runtime

// NeedsLiveAPI is the error for [RunConfig.SupportCFC] with a model that has no live API. Its
// arguments are the names of model and agent.
const NeedsLiveAPI = "support_cfc requires models with a live API; model %s of agent %s has none"

// addGenerator makes the agent answer over a live connection, if the run config requires it
// (adk-python flows/llm_flows/base_llm_flow.py).
func (s *step) addGenerator() error {
	if !s.inv.run.config.SupportCFC {
		return nil
	}
	driver := s.inv.run.app.live
	if driver == nil {
		return invalidRequest("support_cfc requires live conversations, which this program does not include")
	}
	s.generator = driver.NewGenerator(s.inv.node.llm, &s.inv.run.config)
	if s.generator == nil {
		return invalidRequest(NeedsLiveAPI, s.inv.node.llm.Name(), s.agent.Name())
	}
	return nil
}

// closeGenerator ends the agent's live connection.
func (s *step) closeGenerator() {
	if s.generator == nil {
		return
	}
	if err := s.generator.Close(); err != nil {
		s.inv.run.logger().Debug("closing the live connection failed", "agent", s.agent.Name(), "error", err)
	}
}
