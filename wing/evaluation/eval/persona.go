package eval

import "slices"

// A Persona describes how a simulated user behaves.
type Persona struct {
	ID          string      `json:"id"`
	Description string      `json:"description"`
	Behaviors   []*Behavior `json:"behaviors"`
}

// A Behavior is one trait in a persona: what the simulated user does, and by what a judge
// notices that it did not.
type Behavior struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Instructions []string `json:"behaviorInstructions"`
	Violations   []string `json:"violationRubrics"`
}

// Personas returns the prebuilt personas, which a scenario names by ID.
func Personas() []*Persona {
	return []*Persona{
		{
			"EXPERT", "A specialist with a precise goal and little patience.",
			[]*Behavior{advanceWithAllDetails(), answerRelevant(), correctAgent(), retryOnce(), speakProfessionally()},
		},
		{
			"NOVICE", "A first-time user who relies on the agent to ask for what it needs.",
			[]*Behavior{advanceWithGoalOnly(), answerEverything(), acceptMistakes(), endOnFailure(), speakConversationally()},
		},
		{
			"EVALUATOR", "A tester who gives all details and leaves mistakes for the report.",
			[]*Behavior{advanceWithAllDetails(), answerRelevant(), acceptMistakes(), endOnFailure(), speakConversationally()},
		},
	}
}

// findPersona returns a prebuilt persona, or nil.
func findPersona(id string) *Persona {
	all := Personas()
	if i := slices.IndexFunc(all, func(p *Persona) bool { return p.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

func personaIDs() []string {
	var ids []string
	for _, p := range Personas() {
		ids = append(ids, p.ID)
	}
	return ids
}

func advanceWithAllDetails() *Behavior {
	return &Behavior{
		"Advance with details", "The user states the goal together with all its details.",
		[]string{"State the next goal of the plan and all its details in one message."},
		[]string{"The message withholds a detail of the goal that the plan contains."},
	}
}

func advanceWithGoalOnly() *Behavior {
	return &Behavior{
		"Advance with the goal", "The user states the goal and waits for questions.",
		[]string{"State only the next goal of the plan.", "Give details when the agent requests them."},
		[]string{"The message contains details that the agent did not request."},
	}
}

func answerRelevant() *Behavior {
	return &Behavior{
		"Answer relevant questions", "The user answers only questions that the goal needs.",
		[]string{"Answer a question if the plan has the answer.", "Otherwise return to the goal."},
		[]string{"The message answers a question that is not relevant to the goal."},
	}
}

func answerEverything() *Behavior {
	return &Behavior{
		"Answer all questions", "The user answers each question of the agent.",
		[]string{"Answer each question.", "Admit it if the plan does not contain the answer."},
		[]string{"The message leaves a question of the agent unanswered."},
	}
}

func correctAgent() *Behavior {
	return &Behavior{
		"Correct the agent", "The user corrects an agent that contradicts the plan.",
		[]string{"If the agent contradicts the plan or misunderstands the goal, correct it."},
		[]string{"The message accepts a statement that contradicts the plan."},
	}
}

func acceptMistakes() *Behavior {
	return &Behavior{
		"Accept mistakes", "The user does not correct the agent.",
		[]string{"If the agent makes a mistake, continue without correcting it."},
		[]string{"The message corrects the agent."},
	}
}

func retryOnce() *Behavior {
	return &Behavior{
		"Retry once", "The user tries a failed step once more, then ends the conversation.",
		[]string{"After the first failure of a step, try it again.", "After the second, end the conversation."},
		[]string{"The user continues after the second failure of a step."},
	}
}

func endOnFailure() *Behavior {
	return &Behavior{
		"End on failure", "The user does not troubleshoot.",
		[]string{"If a step fails, end the conversation."},
		[]string{"The user continues after a failure."},
	}
}

func speakProfessionally() *Behavior {
	return &Behavior{
		"Professional tone", "The user writes short and precise messages.",
		[]string{"Write in a professional tone, with the terms of the field."},
		[]string{"The message is chatty or imprecise."},
	}
}

func speakConversationally() *Behavior {
	return &Behavior{
		"Conversational tone", "The user writes as in a chat.",
		[]string{"Write in a friendly and natural tone."},
		[]string{"The message is stiff or full of technical terms."},
	}
}
