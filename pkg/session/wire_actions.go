package session

import "reflect"

// writeActions writes the four maps that every event has, and the other fields
// that are set.
func (w *writer) writeActions(a *Actions) {
	w.openBracket('{')
	w.writeOptionalFlag("skipSummarization", a.SkipSummarization)
	w.writeMapField("stateDelta", a.StateDelta)
	w.startField("artifactDelta").writeTypedMap(reflect.ValueOf(a.ArtifactDelta))
	w.writeOptionalString("transferToAgent", a.TransferToAgent)
	w.writeOptionalFlag("escalate", a.Escalate)
	w.writeMapField("requestedAuthConfigs", a.RequestedAuthConfigs)
	w.writeRequestedConfirmations(a)
	w.writeOptional("compaction", a.Compaction)
	w.writeOptionalFlag("endOfAgent", a.EndOfAgent)
	// An empty agent state is a checkpoint; nil is none.
	if a.AgentState != nil {
		w.writeMapField("agentState", a.AgentState)
	}
	w.writeOptionalString("rewindBeforeInvocationId", a.RewindBeforeInvocationID)
	w.writeOptionalValue("route", a.Route)
	if len(a.RenderUIWidgets) > 0 {
		before := w.err
		w.startField("renderUiWidgets").writeRawJSON(a.RenderUIWidgets)
		w.addErrorKey(before, "renderUiWidgets")
	}
	w.writeOptionalValue("setModelResponse", a.SetModelResponse)
	w.closeBracket('}')
}

func (w *writer) writeRequestedConfirmations(a *Actions) {
	before := w.err
	w.startField("requestedToolConfirmations").writeTypedMap(reflect.ValueOf(a.RequestedToolConfirmations))
	w.addErrorKey(before, "requestedToolConfirmations")
}

func (w *writer) writeConfirmation(c *Confirmation) {
	w.openBracket('{')
	w.startField("hint").writeString(c.Hint)
	w.startField("confirmed").writeValue(c.Confirmed)
	w.writeOptionalValue("payload", c.Payload)
	w.closeBracket('}')
}

func (w *writer) writeCompaction(c *Compaction) {
	w.openBracket('{')
	w.writeFloatField("startTimestamp", c.StartTimestamp)
	w.writeFloatField("endTimestamp", c.EndTimestamp)
	before := w.err
	w.startField("compactedContent").writePointer(reflect.ValueOf(c.CompactedContent))
	w.addErrorKey(before, "compactedContent")
	w.closeBracket('}')
}
