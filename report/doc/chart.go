package doc

// A chart is a plot as the page's script draws it.
type chart struct {
	Caption string `json:"caption"`
}

func (p Plot) chart() chart { return chart{Visible(p.Caption)} }
