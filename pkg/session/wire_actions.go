package session

import "reflect"

// actions writes the four maps that every event has, and what else there is.
func (w *writer) actions(a *Actions) {
	w.open('{')
	w.flag("skipSummarization", a.SkipSummarization)
	w.member("stateDelta", a.StateDelta)
	w.field("artifactDelta").typedMap(reflect.ValueOf(a.ArtifactDelta))
	w.optionalText("transferToAgent", a.TransferToAgent)
	w.flag("escalate", a.Escalate)
	w.member("requestedAuthConfigs", a.RequestedAuthConfigs)
	w.requestedConfirmations(a)
	w.optional("compaction", a.Compaction)
	w.flag("endOfAgent", a.EndOfAgent)
	// An empty agent state is a checkpoint; nil is none.
	if a.AgentState != nil {
		w.member("agentState", a.AgentState)
	}
	w.optionalText("rewindBeforeInvocationId", a.RewindBeforeInvocationID)
	w.optionalValue("route", a.Route)
	if len(a.RenderUIWidgets) > 0 {
		before := w.err
		w.field("renderUiWidgets").raw(a.RenderUIWidgets)
		w.inKey(before, "renderUiWidgets")
	}
	w.optionalValue("setModelResponse", a.SetModelResponse)
	w.close('}')
}

func (w *writer) requestedConfirmations(a *Actions) {
	before := w.err
	w.field("requestedToolConfirmations").typedMap(reflect.ValueOf(a.RequestedToolConfirmations))
	w.inKey(before, "requestedToolConfirmations")
}

func (w *writer) confirmation(c *Confirmation) {
	w.open('{')
	w.field("hint").text(c.Hint)
	w.field("confirmed").value(c.Confirmed)
	w.optionalValue("payload", c.Payload)
	w.close('}')
}

func (w *writer) compaction(c *Compaction) {
	w.open('{')
	w.floatField("startTimestamp", c.StartTimestamp)
	w.floatField("endTimestamp", c.EndTimestamp)
	before := w.err
	w.field("compactedContent").pointer(reflect.ValueOf(c.CompactedContent))
	w.inKey(before, "compactedContent")
	w.close('}')
}
