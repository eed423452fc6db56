package main

// clientTopics are what a host promises whoever talks to it.
func clientTopics() []topic {
	return []topic{
		{"hostile clients", atEach(false, hostileRows)},
	}
}
