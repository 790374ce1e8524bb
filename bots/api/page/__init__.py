"""A page that anybody may ask on, and the widget that puts the same into other pages."""
