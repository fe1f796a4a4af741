un café noir
