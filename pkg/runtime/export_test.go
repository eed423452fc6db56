package runtime

// DropCounter makes a run count no outcome. Users cannot do so.
func DropCounter(m *CallbackContext) { m.run.limits.counter = nil }
