package main

import "testing"

func TestAgenthost(t *testing.T) { testSide(t, agenthost{}) }
